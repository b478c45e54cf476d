"""The commands, by who runs them. Arguments come in, words go out; what is done, others do."""
