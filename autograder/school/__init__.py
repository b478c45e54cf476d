"""What a school's system gives and takes: class lists, submissions, grades."""
