// Package k8s checks docker/k8s where no cluster is: built by kubectl's kustomize, decoded, defaulted and validated by the API
// server's own code, judged by Pod Security Standards, and held against what the programs say of themselves.
package k8s
