"""python -m ffload ffpack|ffinspect|fftrain ARGUMENTS: the program itself, in place of Python."""
import sys

from . import programs

USAGE = "python -m ffload %s ARGUMENTS..." % "|".join(programs.NAMES)


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in programs.NAMES:
        programs.run(name, sys.argv[2:])
    if name in ("-h", "--help"):
        print("%s\nis that program, as in the package; each has its own --help." % USAGE)
        return 0
    print("ffload: %s; wanted %s" % ("'%s' is not a program" % name if name else "no program is named", USAGE),
          file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
