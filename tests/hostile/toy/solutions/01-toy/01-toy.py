# %% [markdown]
# # Toy
# Add two numbers.

# %% add
def add(a, b):
    """Return a + b."""
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION

# %% check_add
import checks

checks.run("add", points=4)

# %% twice
def twice(a):
    """Return 2 a."""
    ### BEGIN SOLUTION
    return 2 * a
    ### END SOLUTION

# %% check_twice
checks.run("twice", points=2)

# %% proof [markdown] points=3
# ### BEGIN SOLUTION
# Because addition commutes.
# ### END SOLUTION
