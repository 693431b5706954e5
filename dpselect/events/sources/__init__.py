"""Where events come from: files and tables, each read into rows by one module."""
