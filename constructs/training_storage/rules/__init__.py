"""What the services allow: one small object a rule, used by planner and constructs alike."""
