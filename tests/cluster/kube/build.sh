#!/usr/bin/env bash
# Build a Kubernetes cluster for tests into ${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/tlt/kube}.
#
#   build.sh chart     helm, kubeconform, promtool                         (cold  1-2 min on 2 cores,  160 MB)
#   build.sh control   adds etcd, the control plane, kubectl, kwok         (cold about 9 min,          580 MB)
#   build.sh           adds kubelet, kube-proxy, containerd, runc, CNI, CoreDNS, fake GPUs (13 min,    900 MB)
#
# A cold build also needs 430 MB of downloads, 2.3 GB of Go modules and 4.6 GB of Go's build cache.
# With a warm build cache everything takes 10 s; nothing is rebuilt while sources and Go version are unchanged.
# Needs Go 1.26 and gcc. As root, installs missing Debian packages; otherwise lists them and fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/tlt/kube}
case ${1:-all} in
  chart) groups="chart" ;;
  control) groups="chart control" ;;
  all) groups="chart control node" ;;
  *) echo "usage: build.sh [chart|control|all]" >&2; exit 2 ;;
esac
command -v go >/dev/null || { echo "build.sh: Go 1.26 is needed to build the cluster (https://go.dev/dl)" >&2; exit 1; }

mkdir -p "$bin/cni"
exec 9>"$bin/.lock"; flock 9 # a concurrent build waits, then has nothing to do
fresh="$bin/.new"; rm -rf "$fresh"; mkdir -p "$fresh"
trap 'rm -rf "$fresh"' EXIT

stamp() { cat "$here"/tools/go.* "$here/tools/fakegpu/main.go" "$here/build.sh" <(go version) | sha256sum; }
stamp=$(stamp)
done_already() { [ "$(cat "$bin/.stamp-$1" 2>/dev/null)" = "$stamp" ]; }
helm=v4.2.4 kwok=v0.8.0

# Without a version the binaries report v0.0.0-master, which a chart's kubeVersion rejects.
versions() {
  cd "$here/tools"
  local kube minor package; kube=$(go list -m -f '{{.Version}}' k8s.io/kubernetes); minor=${kube#v1.}
  echo "-s -w -X helm.sh/helm/v4/internal/version.version=$helm"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    echo "-X $package.gitVersion=$kube -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
  done
}

# build PACKAGE...: programs that cannot be installed by version, since their modules replace others.
build() {
  cd "$here/tools"
  CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "$flags" -o "$fresh/" "$@"
}

# released PACKAGE@VERSION...: programs of one module, with the dependencies that its release names.
released() {
  cd /
  GOBIN="$fresh" go install -buildvcs=false -trimpath -ldflags "$flags" "$@"
}

# directory MODULE@VERSION: where the module's files are.
directory() {
  go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'
}

# packages NAME...: install missing Debian packages if root, otherwise fail. Their services are not started.
packages() {
  local missing=() name
  for name in "$@"; do dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name"); done
  (( ${#missing[@]} )) || return 0
  (( EUID == 0 )) || { echo "build.sh: install first: apt-get install ${missing[*]}" >&2; return 1; }
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Unpack promtool and prometheus from Debian's package without installing it: building them takes 8 min of CPU.
prometheus() {
  cd "$fresh"
  apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq; apt-get download -qq prometheus; }
  dpkg -x prometheus_*.deb unpacked
  mv unpacked/usr/bin/{prometheus,promtool} .
  rm -rf unpacked prometheus_*.deb
}

build_chart() {
  CGO_ENABLED=0 released helm.sh/helm/v4/cmd/helm@$helm
  CGO_ENABLED=0 released github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
  prometheus
}

build_control() {
  local k=k8s.io/kubernetes/cmd stages file
  build go.etcd.io/etcd/server/v3 \
    $k/kube-apiserver $k/kube-controller-manager $k/kube-scheduler $k/kubectl
  mv "$fresh/server" "$fresh/etcd" # the main package is go.etcd.io/etcd/server/v3
  CGO_ENABLED=0 released sigs.k8s.io/kwok/cmd/kwok@$kwok
  # kwok does nothing without stages: use those of its release.
  stages=$(directory sigs.k8s.io/kwok@$kwok)/kustomize/stage
  for file in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
              pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    echo "---"; cat "$stages/$file.yaml"
  done > "$fresh/kwok-stages.yaml"
  build_definitions
}

# definitions MODULE@VERSION DIRECTORY FILE...: install an operator's CRDs from its release.
definitions() {
  local folder
  folder=$(directory "$1")/$2
  shift 2
  install -m 644 -t "$bin/crds" "${@/#/$folder/}"
}

# CRDs of the kinds that the chart creates, without KubeRay's: `make cluster-kuberay` installs them with its operator.
build_definitions() {
  rm -rf "$bin/crds"; mkdir "$bin/crds"
  definitions github.com/prometheus-operator/prometheus-operator@v0.85.0 example/prometheus-operator-crd \
    monitoring.coreos.com_{podmonitors,prometheusrules}.yaml
  definitions github.com/cert-manager/cert-manager@v1.18.2 deploy/crds crd-certificates.yaml
  sed -i '/{{/d' "$bin/crds/crd-certificates.yaml" # the file is a chart template: remove its release labels
  definitions sigs.k8s.io/gateway-api@v1.4.0 config/crd/standard \
    gateway.networking.k8s.io_{grpcroutes,backendtlspolicies}.yaml
}

build_node() {
  packages libseccomp-dev pkg-config iproute2 nftables
  build k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy ./fakegpu
  local containerd=github.com/containerd/containerd/v2/cmd plugins=github.com/containernetworking/plugins/plugins
  CGO_ENABLED=0 released $containerd/{containerd,containerd-shim-runc-v2,ctr}@v2.4.2
  CGO_ENABLED=0 released $plugins/{ipam/host-local,main/bridge,main/loopback}@v1.9.1
  CGO_ENABLED=0 released github.com/coredns/coredns@v1.15.0
  CGO_ENABLED=1 released -tags seccomp github.com/opencontainers/runc@v1.5.2 # its nsenter is C
  mv "$fresh"/{bridge,host-local,loopback} "$bin/cni/"
}

flags=""
for group in $groups; do
  done_already "$group" && continue
  [ -n "$flags" ] || flags=$(versions | tr '\n' ' ')
  began=$SECONDS
  "build_$group"
  find "$fresh" -mindepth 1 -maxdepth 1 -exec mv -t "$bin" {} + # renames: running clusters keep their files
  echo "$stamp" > "$bin/.stamp-$group"
  echo "$group: built in $((SECONDS - began)) s"
done
echo "binaries are in $bin ($groups)"
