"""nbgrader's exchange: hand-ins are taken from it safely, graded at once, and answered."""
