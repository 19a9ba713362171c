"""A fleet: agents as files, compared with a server and made so."""
