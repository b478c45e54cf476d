"""nbgrader's settings for students; jupyterhub_config.py sets the variables."""

import os

c = get_config()  # noqa: F821 (traitlets puts it here)

c.CourseDirectory.course_id = "attention-by-hand"
c.Exchange.root = os.environ["NBGRADER_EXCHANGE"]
# In the demonstration all people are one user of the system; elsewhere, the two names are the same.
c.CourseDirectory.student_id = os.environ["JUPYTERHUB_USER"]
