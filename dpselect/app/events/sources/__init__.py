"""Sources of events: files and tables, each read into rows by one module."""
