"""Task graphs as files: JSON objects with tasks, the slices that they read and write, and what orders them.

    {"tasks": ..., "tensors": ..., "edges": ...}           dependency dumps of Ascend runtimes (`dependency_dump.py`)
    {"all_tasks": ..., "all_events": ..., ...}             task graphs of Mirage's persistent kernels (`mirage.py`)

Both are recognized by their keys.
"""

from haulout.frontends.tasks.read import is_task_graph, read_task_graph

__all__ = ["is_task_graph", "read_task_graph"]
