"""The post office of this example: it prints, and remembers what it sent."""

sent: list[tuple[str, str]] = []


def send_letter(to: str, text: str) -> None:
    """Send a letter. Like every step that was cut off, it may be sent once more."""
    sent.append((to, text))
    print(f"             letter to {to}: {text}")
