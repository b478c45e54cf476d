"""nbgrader's settings for the instructor in the browser; the course's folder has all others."""

import os

c = get_config()  # noqa: F821 (traitlets puts it here)

c.CourseDirectory.root = os.environ["NBGRADER_COURSE"]
c.CourseDirectory.course_id = "attention-by-hand"
c.Exchange.root = os.environ["NBGRADER_EXCHANGE"]
