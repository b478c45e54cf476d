# %% title [markdown]
# # N. TITLE
#
# One function: `centred`. Write here what it is for, and which chapter to read first.
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` by your
# code, run that cell, then run the check below it, as often as you like: it draws new inputs every time.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under the name that it
# has, `NN-name.ipynb`. The cells that are locked stay as they are; add cells of your own where you like.

# %% given
import numpy as np

# %% ask_centred [markdown]
# ## N.1 `centred`: every column around zero
#
# Say what is asked, and work one example by hand. With n = 2 and d = 1: the rows $(1)$ and $(5)$ have the mean $(3)$,
# so the result is $(-2)$ and $(2)$.

# %% centred
def centred(X):
    """Shift the rows of each sequence, so that each column's mean is zero.

    Parameters
    ----------
    X : array, shape (..., n, d)

    Returns
    -------
    array, shape (..., n, d)
        X, less the mean over its n rows.
    """
    ### BEGIN SOLUTION
    return X - X.mean(axis=-2, keepdims=True)
    ### END SOLUTION

# %%
# Yours to play with. Write the function, then take the # away.
# centred(np.array([[1.0], [5.0]]))

# %% check_centred
import checks

checks.run("centred", points=4)
