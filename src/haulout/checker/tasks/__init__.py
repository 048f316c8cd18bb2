"""The checker of task graphs: does every conflicting pair of tasks have a path, in the order of submission?"""

from haulout.checker.tasks.check import TaskCheck, check_task_graph

__all__ = ["TaskCheck", "check_task_graph"]
