#!/bin/sh
# Applies Terraform under a lock that a dead apply cannot leave behind: terraform.sh prod -auto-approve
#
# Terraform's own lock has no heartbeat: a killed apply leaves it until `terraform force-unlock`. -lock=false turns it
# off, and `tenure` around it renews the lock for as long as Terraform runs.
set -eu

state=${1:?usage: terraform.sh STATE [OPTION]...}
shift

# On a loss Terraform has 45 s to save its state. That time is at most a sixth of the lease.
exec tenure run --wait 1h --ttl 5m --kill-after 45s "tf/$state" -- terraform apply -lock=false "$@"
