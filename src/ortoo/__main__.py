"""`python -m ortoo` is the command line."""

from ortoo.cli import main

if __name__ == "__main__":
    main()
