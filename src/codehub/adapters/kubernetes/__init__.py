"""Kubernetes: workspaces as Pods, homes as claims, archives by Jobs.

Read in this order:
client       what is asked of the API (over api, exec, websocket; access and kubeconfig: as whom)
watch_cache  lists that a watch keeps current, and that say when they are behind (docs/adr/0034); contents
instances    the InstanceController, with pods (manifests and parsed answers) and why (what keeps one waiting)
storage      the StorageProvider, with claim_store and claims, job_runner and jobs
instance_access  commands and ports in a Pod, with command_session and relay
isolation    what keeps workspaces apart, with policies and isolation_probe
"""
