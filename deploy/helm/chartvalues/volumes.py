"""Additional volumes of pods, with closed schemas: exactly what Kubernetes calls each kind."""

from pydantic import Field

from chartvalues.base import Count, Labels, Name, Quantity, Values


class File(Values):
    """A key and the file that it becomes."""

    key: str
    """Key of the ConfigMap or Secret."""
    path: str
    """Path below the mount."""
    mode: Count | None = None
    """Mode of the file."""


class ConfigMapFiles(Values):
    """Files of a ConfigMap."""

    name: Name
    """Name of the ConfigMap."""
    items: list[File] = []
    """Keys that become files; empty means all."""
    default_mode: Count | None = None
    """Mode of the files."""
    optional: bool = False
    """Whether it may be missing."""


class SecretFiles(Values):
    """Files of a Secret."""

    secret_name: Name
    """Name of the Secret."""
    items: list[File] = []
    """Keys that become files; empty means all."""
    default_mode: Count | None = None
    """Mode of the files."""
    optional: bool = False
    """Whether it may be missing."""


class Scratch(Values):
    """An empty directory that ends with the pod."""

    medium: str = ""
    """Memory, or empty for the node's disk."""
    size_limit: Quantity | None = None
    """Size limit."""


class Claim(Values):
    """A PersistentVolumeClaim."""

    claim_name: Name
    """Name of the claim."""
    read_only: bool = False
    """Whether it is mounted read-only."""


class NodeDirectory(Values):
    """A path on the node, which the restricted Pod Security level rejects."""

    path: str = Field(pattern="^/")
    """The path."""
    type: str = ""
    """What must be there, such as Directory; empty means anything."""


class Driver(Values):
    """A volume of a CSI driver, such as that of a secret store."""

    driver: str
    """Name of the driver."""
    read_only: bool = False
    """Whether it is mounted read-only."""
    volume_attributes: Labels = {}
    """Attributes for the driver."""


class Nfs(Values):
    """A directory of an NFS server."""

    server: str
    """Host name or address."""
    path: str = Field(pattern="^/")
    """Exported path."""
    read_only: bool = False
    """Whether it is mounted read-only."""


class Volume(Values):
    """A volume: a name and one source."""

    name: Name
    """Name, to which `volumeMounts` refer."""
    config_map: ConfigMapFiles | None = None
    """Files of a ConfigMap."""
    secret: SecretFiles | None = None
    """Files of a Secret."""
    empty_dir: Scratch | None = None
    """An empty directory."""
    persistent_volume_claim: Claim | None = None
    """A claim."""
    host_path: NodeDirectory | None = None
    """A path on the node."""
    csi: Driver | None = None
    """A volume of a CSI driver."""
    nfs: Nfs | None = None
    """A directory of an NFS server."""
