"""Untrusted models, loaded and used in a child process with limits on time and memory."""
