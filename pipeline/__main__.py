"""`python -m pipeline` is the command `rankloom`."""

from pipeline.cli import main

main()
