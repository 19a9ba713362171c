"""`heeler doctor`: looks at all that a server needs, from where it runs, and changes nothing."""
