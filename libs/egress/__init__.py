"""Every request to an address that a client named: which may be asked, and by whom it is."""
