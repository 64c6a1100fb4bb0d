// Package registry is the service of what is kept: the recipe catalog, datasets, models, and the
// deployments that serve models; environments, rubrics and the solutions that are applied to them. It promises that bytes are what their digests say, that a version which
// is ready never changes, that a candidate never touches what serves, that the promoted revision changes
// by one row, and that a revoked token is dead on every live replica of inference before the caller of
// the revocation hears so.
//
// Inside, from the lowest: own, ref and topic; recipe, bundle, dataset, environment, rubric, header and model; solution;
// epoch (the order of all that inference serves by); revision and token; deployment; engine and snapshot,
// which carry deployments to jobs and to inference; catalog, which answers jobs.
package registry
