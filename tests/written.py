"""A program that has every kind of statement, with its text in every dialect, and short names for its parts."""

from __future__ import annotations

from karelsynth.karel.program import Action, Condition, If, IfElse, Not, Program, Repeat, Sensor, Statement, While

MOVE, LEFT, RIGHT = Action.MOVE, Action.TURN_LEFT, Action.TURN_RIGHT
FRONT = Sensor.FRONT_IS_CLEAR

PROGRAM = Program(
    (
        Repeat(4, (Action.PUT_MARKER, MOVE)),
        While(Not(FRONT), (RIGHT, If(Not(Not(Sensor.LEFT_IS_CLEAR)), (LEFT,)))),
        IfElse(Not(Sensor.MARKERS_PRESENT), (MOVE,), (Action.PICK_MARKER,)),
        If(Not(Sensor.NO_MARKERS_PRESENT), (Repeat(0, (MOVE,)),)),
    )
)
GOLDEN = {
    "tokens": (
        "DEF run m( REPEAT R=4 r( putMarker move r) "
        "WHILE c( not c( frontIsClear c) c) w( turnRight "
        "IF c( not c( not c( leftIsClear c) c) c) i( turnLeft i) w) "
        "IFELSE c( not c( markersPresent c) c) i( move i) ELSE e( pickMarker e) "
        "IF c( not c( noMarkersPresent c) c) i( REPEAT R=0 r( move r) i) m)"
    ),
    "paper": """\
def run():
  repeat(4):
    putMarker()
    move()
  while(not frontIsClear):
    turnRight()
    if(not not leftIsClear):
      turnLeft()
  ifelse(not markersPresent):
    move()
  else:
    pickMarker()
  if(not noMarkersPresent):
    repeat(0):
      move()""",
    "stanford": """\
from stanfordkarel import *


def turn_right():
    turn_left()
    turn_left()
    turn_left()


def main():
    for _ in range(4):
        put_beeper()
        move()
    while front_is_blocked():
        turn_right()
        if not left_is_blocked():
            turn_left()
    if not beepers_present():
        move()
    else:
        pick_beeper()
    if not no_beepers_present():
        for _ in range(0):
            move()


if __name__ == "__main__":
    run_karel_program()
""",
}
ADA = """\
# Ada's program
from stanfordkarel import *

def take_all():   # a helper
    # pick up what lies here
    while beepers_present():
        pick_beeper()  # one

def main():
    \"\"\"Clean the row.\"\"\"
    move()
    # the first cell has none
    turn_left()

    # go on
    while front_is_clear():
        move(); take_all()

if __name__ == "__main__":
    run_karel_program()
"""
"""Written by a student: it has a helper, comments, and a line of two statements."""


def loop(condition: Condition, *body: Statement) -> Program:
    return Program((While(condition, body or (MOVE,)),))
