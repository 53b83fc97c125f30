"""The settings of the cluster that workspaces run in. Each with its bounds."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from codehub.role_settings import RoleSettings
from codehub.setting_urls import to_networks


class KubernetesSettings(RoleSettings):
    """Where the cluster is, and what Pods and claims get there."""

    k8s_namespace: str = Field(
        "codehub-workspaces",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        description="The namespace of the cluster in which workspaces run and homes lie, and in which codehub needs its rights.",
    )
    k8s_kubeconfig: Path | None = Field(
        None,
        description="The kubeconfig that leads to the cluster. Default: in a Pod its own service account, else `KUBECONFIG` or `~/.kube/config`.",
    )
    k8s_storage_class: str | None = Field(
        None, description="The storage class of homes. Default: the cluster's default class."
    )
    k8s_access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod"] = Field(
        "ReadWriteOnce",
        description="How a new home may be mounted. With `ReadWriteOncePod` the cluster itself gives it to one Pod at a time: set it where the class's driver can.",
    )
    k8s_pod_patch: Path | None = Field(
        None,
        description="A YAML file with what every workspace's Pod gets beside: node selector, tolerations, runtime class, volumes, GPUs ([Kubernetes](kubernetes.md)).",
    )
    k8s_archive_claim: str | None = Field(
        None,
        description="The claim of that namespace that holds the directory of a `file://` `ARCHIVE_URL`, which has to be mounted here too. With `s3://` none is needed.",
    )
    k8s_reached_from: str | None = Field(
        None,
        description="Where codehub's proxies and controllers are, as workspaces see them, with commas between: networks (`10.1.2.0/24`) or Pods (`namespace`, `namespace/label=value`). Nobody else reaches a workspace. Default: in a Pod those of its namespace with `app.kubernetes.io/name=codehub`, else this machine's address.",
    )
    k8s_egress_allowed: str = Field(
        "",
        description="Private networks that workspaces may reach all the same, with commas between, e.g. `10.20.0.0/16`. Default: none.",
    )
    k8s_egress_refused: str = Field(
        "",
        description="Public networks that they may not reach, such as addresses of the cluster's nodes. Default: what the API server says of its own.",
    )

    @field_validator("k8s_egress_allowed", "k8s_egress_refused")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        try:
            to_networks(value)
        except ValueError as error:
            raise ValueError(f"{error}. It must be addresses or networks with commas between") from None
        return value
