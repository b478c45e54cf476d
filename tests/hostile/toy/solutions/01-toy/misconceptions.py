"""Wrong answers."""

from checking import misconception


@misconception("add", label="subtracted instead of added", hint="You subtract.")
def subtracts(a, b):
    return a - b
