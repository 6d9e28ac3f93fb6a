"""The paper's figures and tables, and what lies beyond them: one file an experiment."""
