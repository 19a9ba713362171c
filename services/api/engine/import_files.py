"""Puts the texts of files of a source into their folders: as uploads that are text already."""

from __future__ import annotations

from collections.abc import Set

from libs.contracts.agent_file import FileText
from libs.contracts.api.import_errors import BadSource
from libs.contracts.bus_messages import CONFLICT, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.files import AddFile
from services.api.adapters.memory.uploaded_file_store import (
    Upload,
    UploadAbandoned,
    UploadKnown,
    UploadTooLarge,
)
from services.api.engine.import_ports import ImportPorts, Sender

TYPE_DEFAULT = "text/plain"
IN_THE_WAY = "a file of this id is being uploaded: try again when that has ended"


class Files:
    """Uploads files, one after the other, each part of its text as it comes. A file that is there
    stays as it is."""

    def __init__(self, ports: ImportPorts, sender: Sender, renewed_folders: Set[str]) -> None:
        self.ports = ports
        self.sender = sender
        self.renewed_folders = renewed_folders
        self.upload: Upload | None = None
        self.first: FileText | None = None

    async def take(self, number: int, part: FileText) -> None:
        """The next part of a file; with the last one the file is in its folder. Raises
        BadSource."""
        if part.folder_id in self.renewed_folders:
            another = derived_id("file", self.sender.wanted.import_id, part.file_id)
            part = part.model_copy(update={"file_id": another})
        text = "".join(chunk.text for chunk in part.chunks).encode()
        try:
            if part.number == 0:
                await self.begin(part, len(text))
            if self.first is None or self.first.file_id != part.file_id:
                raise BadSource.at_line(number, "it goes on with a file that has not begun")
            if self.upload is None:
                return
            await self.upload.write(text)
            if part.number + 1 >= parts_of(self.first):
                await self.upload.finish()
                await self.add(number, self.first, self.upload)
        except (UploadTooLarge, UploadAbandoned) as refused:
            raise BadSource.at_line(number, str(refused)) from None
        except UploadKnown:
            raise BadSource.at_line(number, IN_THE_WAY) from None

    async def begin(self, part: FileText, size: int) -> None:
        """Begin with a file, unless it is there. What an earlier attempt has left of its
        upload is removed."""
        self.first, self.upload = part, None
        if await self.ports.queries.has_file(part.file_id):
            return
        org, uploads = self.sender.wanted.org, self.ports.uploads
        if await self.ports.queries.has_upload(org, part.file_id):
            await uploads.discard(part.file_id)
        self.upload = await uploads.begin(org, part.file_id, size)

    async def add(self, number: int, first: FileText, upload: Upload) -> None:
        """Put a file into its folder, unless it is there."""
        command = AddFile(
            file_id=first.file_id,
            folder_id=first.folder_id,
            name=str(first.value.get("original_name") or first.value.get("name") or "file"),
            file_type=str(first.value.get("file_type") or TYPE_DEFAULT),
            file_size=upload.size,
            sha256=upload.sha256,
            begun_at=upload.begun_at,
            is_text=True,
        )
        reply = await self.sender.ask(command, "file", first.file_id)
        if isinstance(reply, Rejected) and reply.code != CONFLICT:
            await self.ports.uploads.discard(first.file_id)
            raise BadSource.at_line(number, reply.reason)


def parts_of(first: FileText) -> int:
    """In how many parts a file comes."""
    parts = first.value.get("parts")
    return parts if isinstance(parts, int) else 1
