"""``python -m hudi_vector`` is the command ``hudi-vector``."""

from hudi_vector.command.main import main

if __name__ == "__main__":
    raise SystemExit(main())
