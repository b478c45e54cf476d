"""nbgrader's settings for the instructor in the browser: those of the course's folder."""

import os

c = get_config()  # noqa: F821 (traitlets puts it here)

course = os.environ["NBGRADER_COURSE"]
load_subconfig(f"{course}/nbgrader_config.py")  # noqa: F821 (traitlets puts it here)
c.CourseDirectory.root = course
