# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Toy
# Add two numbers.

# %% nbgrader={"grade": false, "grade_id": "add", "locked": false, "schema_version": 3, "solution": true, "task": false}
def add(a, b):
    """Return a + b."""
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_add", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("add", points=4)

# %% nbgrader={"grade": false, "grade_id": "twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
def twice(a):
    """Return 2 a."""
    ### BEGIN SOLUTION
    return 2 * a
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_twice", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
checks.run("twice", points=2)

# %% [markdown] nbgrader={"grade": true, "grade_id": "proof", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Because addition commutes.
# ### END SOLUTION
