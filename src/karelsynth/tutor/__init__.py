"""The tutor: what helps a class with a task.

- `grade`: right or wrong on every example, and why
- `hint`: the right program nearest to a student's, in the student's own text
- `probe`: wrong programs that a task's examples do not unmask
- `pose`: exercises with the concepts of a lesson
"""
