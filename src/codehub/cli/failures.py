"""A command's failure: an error in the API's own shape, with what a person can do about it."""

from codehub.error_codes import Exit, exit_of


class Failed(Exception):
    """An error in the API's own shape, with what a person can do about it."""

    def __init__(
        self,
        code: str,
        message: str,
        details: object = None,
        *,
        do: str | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.do = do
        self.text = text or message
        """The message for people, where it differs from that for programs."""

    @property
    def exit(self) -> Exit:
        return exit_of(self.code)

    def shape(self) -> dict[str, object]:
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}
