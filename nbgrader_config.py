"""nbgrader's configuration of this course: nbgrader's own commands and `python -m autograder`
both read it.
"""

c = get_config()  # noqa: F821 (traitlets puts it here)

c.CourseDirectory.course_id = "attention-by-hand"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"

# nbgrader copies all other files of an exercise's folder to students, but never the source with the
# solutions.
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "__pycache__",
    "*.pyc",
    "[0-9][0-9]-*.py",
    "specifications.py",
    "misconceptions.py",
    "right_answers.py",
    "verified.json",
    "grade.json",
]

# `nbgrader autograde` runs submissions with the course's engine: cells in a sandbox, checks in the
# judge.
c.Autograde.sanitize_preprocessors = ["autograder.nbgrader_plugin.Run"]
c.Autograde.autograde_preprocessors = [
    "autograder.nbgrader_plugin.Grades",
    "autograder.nbgrader_plugin.LatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# A notebook in another language, or a renamed one, counts as the exercise whose folder it is in.
c.Autograde.pre_convert_hook = "autograder.nbgrader_plugin.under_its_name"

# `nbgrader generate_feedback` writes the course's own feedback page, which reads the gradebook
# itself.
c.GenerateFeedback.exporter_class = "autograder.nbgrader_plugin.Page"
c.GenerateFeedback.preprocessors = []

# Formulas on the formgrader's pages are MathML, which needs no network. (nbgrader's template still
# loads MathJax.)
c.HTMLExporter.filters = {"markdown2html": "autograder.feedback.page.markdown2html"}

# Late work loses no points unless there is a rule. Due dates and extensions are in deadlines.toml.
# c.AssignLatePenalties.plugin_class = "autograder.grades.late.PerDay"
# c.PerDay.percent = 10  # of the earned points, for each day that has begun
# c.PerDay.at_most = 3  # days late; later work gets no points
# c.PerDay.free_days = 5  # of each student, in the whole course

# `watch` grades what students submit through nbgrader's exchange at once.
# `autograder/course/watch_settings.py` has all settings. For example:
# c.Exchange.root = "/srv/nbgrader/exchange"
# c.Watch.shows = "points"  # at once; or "reasons", or "after due date"
# c.Watch.attempts = 0  # graded for a student and exercise; 0 for any number
# c.Watch.per_hour = 20  # graded for a student in an hour

# Limits of a submission are also set here: `autograder/course/limits.py` has their names and
# meanings. For example: c.Limits.cpu_seconds = 60

# The students' copy of an exercise is rebuilt completely each time.
c.GenerateAssignment.force = True
c.ExecutePreprocessor.timeout = 60
