# %% title [markdown]
# # 14. Serving
#
# One function: `centered`. Write here what it is for, and which chapter to read first.
#
# *About 20 minutes · easy ●○○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `14-serving.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import numpy as np

# %% ask_by_hand [markdown]
# ## With a pencil: two columns
#
# *About 5 minutes · easy ●○○*
#
# The rows $(1, 0)$ and $(5, 2)$ are a sequence. Subtract its mean from each column. **Find four numbers**,
# row by row.


# %% by_hand
def by_hand():
    """Return the rows minus the means of their columns, worked out with a pencil.

    Returns
    -------
    list of 2 rows of 2 numbers
    """
    ### BEGIN SOLUTION
    return [[-2, -1], [2, 1]]
    ### END SOLUTION


# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% ask_centered [markdown]
# ## 14.1 `centered`: every column around zero
#
# *About 10 minutes · easy ●○○*
#
# State the task, and work out one example by hand. With n = 2 and d = 1: the rows $(1)$ and $(5)$ have the mean
# $(3)$, so the result is $(-2)$ and $(2)$.


# %% centered
def centered(X):
    """Shift the rows of each sequence, so that each column's mean is zero.

    Parameters
    ----------
    X : array, shape (..., n, d)

    Returns
    -------
    array, shape (..., n, d)
        X minus the mean over its n rows.
    """
    ### BEGIN SOLUTION
    return X - X.mean(axis=-2, keepdims=True)
    ### END SOLUTION


# %%
# For your own experiments. Write the function, then remove the #.
# centered(np.array([[1.0], [5.0]]))

# %% check_centered
import checks

checks.run("centered", points=4)

# %% think [markdown]
# ## To think about
#
# *About 5 minutes · medium ●●○*
#
# What does `centered` return for its own result? Ask something that needs thought but no code, and hide the answer:
#
# <details><summary>An answer</summary>
#
# The same: the means are already 0.
#
# </details>

# %% stretch [markdown]
# ## A stretch task
#
# *About 15 minutes · medium ●●○*
#
# Something that goes further, for those who want more; nothing is checked here. Also divide each column by its
# standard deviation, and say what happens to a column of equal numbers.
