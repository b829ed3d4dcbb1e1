"""What may cost a step more than it has to: one rule, one file."""
