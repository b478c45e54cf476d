"""Wrong answers."""

from checking import misconception


@misconception("add", hint="You subtract.")
def subtracts(a, b):
    return a - b
