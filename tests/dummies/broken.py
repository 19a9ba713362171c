raise SystemExit("this migration is broken")
