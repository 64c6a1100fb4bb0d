// Package chart tests the Helm chart of deploy/helm/signalbox without a cluster. It is a module of its own, so that the
// product does not depend on Helm and the modules of Kubernetes.
//
// Each file in testdata/sets contains a set of values. Its test renders the chart with Helm's library, decodes each object
// strictly into the type of its API, and then applies the rules of rules_test.go. Another test plants faults into rendered
// objects and expects that a rule finds each of them.
package chart
