"""Files that are applied again whenever they are saved.

What was saved is found by looking at all files, not by what an event says: events wake the watcher
up, and where none come it looks by itself. So it makes no difference how an editor saves, or
whether the file system has events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cli.exit_codes import CommandError
from cli.fleet.files import AgentFile, Fleet, files_of, find_duplicates, read_agent, state_of
from cli.fleet.run import Comparison, Outcome, Run
from libs.agent_document.plan_resources import find_conflicts

SECOND_LOOK_SECONDS = 0.15  # a file that is wrong may be one that is being written
GONE_SECONDS = 2.0  # a file that is not there may be one that is being replaced
RETRY_SECONDS = 0.5
DUPLICATE = "AGT201"


@dataclass
class Watcher:
    """Applies what was saved since it looked last.

    Args:
        tell: is given what was applied.
        say: is given a sentence for people.
    """

    run: Run
    fleet: Fleet
    tell: Callable[[Comparison, Sequence[Outcome]], None]
    say: Callable[[str], None]
    files: dict[Path, AgentFile] = field(default_factory=dict)
    unsettled: dict[Path, float] = field(default_factory=dict)  # and since when
    gone: dict[Path, float] = field(default_factory=dict)  # and since when
    waiting: set[Path] = field(default_factory=set)  # for a server
    conflicting: set[Path] = field(default_factory=set)  # with other files
    retry_at: float = 0.0  # these
    is_pruning: bool = False  # once the server takes it
    is_down: bool = False

    @property
    def is_busy(self) -> bool:
        """Whether it wants to look again soon, without an event."""
        return bool(self.unsettled or self.gone or self.waiting or self.is_pruning)

    def know(self, files: Iterable[AgentFile]) -> None:
        """These files are applied already."""
        for file in files:
            self.files[file.path] = file

    def look(self, now: float) -> None:
        """Apply what was saved since the last look. `now` is in seconds, of any clock."""
        try:
            there = set(self._files_there())
        except CommandError as problem:  # of a folder that cannot be read
            self._wait((), problem, now)
            return
        self._note_gone(there, now)
        is_less = self._take_gone(now)
        self.is_pruning |= is_less and self.run.asked.prune
        changed = {path for path in there if self._is_changed(path)}
        due = {path for path, at in self.unsettled.items() if now - at >= SECOND_LOOK_SECONDS}
        again = self.conflicting if changed or is_less else set()
        is_due = now >= self.retry_at
        waiting = self.waiting if is_due else set()
        paths = sorted((changed | due | waiting | again) & there)
        try:
            wanted = [*self._read(paths, now)]
        except CommandError as problem:  # of the server, which was asked what it has
            self._wait(paths, problem, now)
            return
        wanted = [file for file in wanted if not self._has_moved(file, now)]
        if wanted or (self.is_pruning and is_due):
            self._apply(wanted, now)

    def _files_there(self) -> list[Path]:
        present = tuple(path for path in self.fleet.paths if path.exists())
        return files_of(replace(self.fleet, paths=present))

    def _is_changed(self, path: Path) -> bool:
        file = self.files.get(path)
        return file is None or file.is_saved_since()

    def _read(self, paths: Sequence[Path], now: float) -> Iterable[AgentFile]:
        """The files to apply. One that is wrong is looked at once more before that is said."""
        for path in paths:
            checks = self.run.checks.current()
            is_new = self._is_changed(path)
            before = self.files.get(path)
            self.files[path] = file = read_agent(self.fleet, path, checks)
            if file.desired is None and before is not None:
                for beside in before.states:  # so that mending one of these is seen
                    file.states.setdefault(beside, state_of(beside))
            if file.desired is None and (is_new or path not in self.unsettled):
                self.unsettled[path] = now
                self.run.checks.forget_if_missing(file)
                continue
            self.unsettled.pop(path, None)
            yield file

    def _note_gone(self, there: set[Path], now: float) -> None:
        for path in self.files.keys() - there:
            self.gone.setdefault(path, now)
        for path in there:
            self.gone.pop(path, None)

    def _take_gone(self, now: float) -> bool:
        """Forget files that are gone for good; whether there are any."""
        taken = [path for path, at in self.gone.items() if now - at >= GONE_SECONDS]
        for path in taken:
            file = self.files.pop(path)
            del self.gone[path]
            self.unsettled.pop(path, None)
            if not self.run.asked.prune:
                self.say(f"{file.name} is gone; its agent stays (without --prune none is deleted)")
        return bool(taken)

    def _has_moved(self, file: AgentFile, now: float) -> bool:
        """Whether the agent of a file is one whose file has just gone: it is looked at again, until
        that one is gone for good."""
        agents = (self.files[path].desired for path in self.gone)
        names = {agent.name for agent in agents if agent is not None}
        has_moved = file.desired is not None and file.desired.name in names
        if has_moved:
            self.unsettled[file.path] = now
        return has_moved

    def _apply(self, wanted: list[AgentFile], now: float) -> None:
        self._refuse_conflicts(wanted)
        try:
            comparison = self.run.compare(self.fleet, wanted, others=self.files.values())
            outcomes = self.run.apply(comparison)
        except CommandError as problem:
            self._wait([file.path for file in wanted], problem, now)
            return
        self.waiting.clear()
        self.is_down = self.is_pruning = False
        self.tell(comparison, outcomes)

    def _wait(self, paths: Iterable[Path], problem: CommandError, now: float) -> None:
        """Try these files again when the server is back."""
        self.waiting.update(paths)
        self.retry_at = now + RETRY_SECONDS
        if not self.is_down:
            self.say(f"{problem}. Trying again until it goes")
        self.is_down = True

    def _refuse_conflicts(self, wanted: Iterable[AgentFile]) -> None:
        """Files that do not go together with the others are as wrong as files that cannot be
        read."""
        there = (file for path, file in self.files.items() if path not in self.gone)
        files = [file for file in there if file.desired is not None]
        duplicates = find_duplicates(files)
        conflicts = find_conflicts([file.desired for file in files if file.desired])
        for file in wanted:
            self.conflicting.discard(file.path)
            name = file.desired.name if file.desired else ""
            key = file.desired.key if file.desired else ""
            words = [conflicts[key]] if key in conflicts else []
            if names := duplicates.get(name):
                words.append(f"{' and '.join(names)} both describe the agent '{name}'")
            for text in words:
                file.add_problem(DUPLICATE, text)
            if words:
                file.desired = None
                self.conflicting.add(file.path)
