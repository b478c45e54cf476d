"""The judge's side of guests: bubblewrap's command line, budgets, the near end of the wire."""
