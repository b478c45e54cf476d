"""What one submission may use; the one place where it is set.

It is changed for a course in `nbgrader_config.py` (`c.Limits.…`), and for one exercise in its `exercise.toml`.
"""

from traitlets import Bool, Float, Integer
from traitlets.config import Configurable


class Limits(Configurable):
    """Limits of a submission. Whatever goes beyond them ends the cell that did, and is a reason of the kind *limit*.

    Time is counted in seconds of computing, and in seconds in which nothing ran at all, so that a busy machine
    changes no grade; what is allowed in all is so for the whole submission, however often it has to begin anew.
    Memory is that of all the submission's processes together, read every twentieth of a second, with what they share
    and with 0.4 MB for each socket, and each process's own is bounded by the kernel as well.
    """

    cpu_seconds = Float(60, help="Seconds of computing for one cell, all its processes together.").tag(config=True)
    cpu_seconds_in_all = Float(300, help="Seconds of computing for a whole submission.").tag(config=True)
    idle_seconds = Float(20, help="Seconds in which a running cell may wait for nothing.").tag(config=True)
    idle_seconds_in_all = Float(120, help="Seconds in which a submission may wait for nothing.").tag(config=True)
    wall_seconds_in_all = Float(
        1800, help="Seconds for which the judge waits for a submission in all, whatever it does."
    ).tag(config=True)
    memory_mb = Integer(2000, help="Memory beyond what the warm parent shares, in MB.").tag(config=True)
    processes = Integer(64, help="Processes and threads at one time.").tag(config=True)
    disk_mb = Integer(200, help="Scratch space, in MB; it lies in memory.").tag(config=True)
    shared_mb = Integer(200, help="Shared memory (/dev/shm), in MB.").tag(config=True)
    files = Integer(5000, help="Files and folders in the scratch space.").tag(config=True)
    descriptors = Integer(256, help="Open files of one process.").tag(config=True)
    output_kb = Integer(400, help="Text that is kept of one cell's output, in KB; more is cut off.").tag(config=True)
    picture_kb = Integer(2000, help="Size of one picture that is kept, in KB.").tag(config=True)
    notebook_mb = Integer(50, help="Size of a notebook that is read, in MB.").tag(config=True)
    graded_mb = Integer(20, help="Size of a graded notebook, and of a feedback page, in MB; more is cut.").tag(
        config=True
    )
    beside_mb = Integer(20, help="Size of the other files that a student hands in, in MB.").tag(config=True)
    judge_seconds = Float(20, help="Seconds that one check cell may make the judge compute.").tag(config=True)
    run_all_cells = Bool(
        False, help="Whether to run the cells behind the last graded cell of code, which change no grade."
    ).tag(config=True)
    received_mb = Integer(1000, help="Data that a submission may send to the judge in all, in MB.").tag(config=True)
    deaths = Integer(6, help="How often a submission may end Python itself, until the rest is not run.").tag(
        config=True
    )

    def plain(self):
        """Return the limits as a dict."""
        return {name: getattr(self, name) for name in self.trait_names(config=True)}
