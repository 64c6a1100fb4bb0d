// Package registry is the service that owns the recipe catalog, datasets, models, the deployments that serve
// models, environments, rubrics, and solutions with their applications. It promises that:
//
//   - stored bytes match their digests;
//   - a ready version never changes;
//   - a candidate revision never affects traffic;
//   - promotion changes a single row;
//   - a revoked token has stopped working on every live replica of inference before the revocation returns.
//
// Its internal packages, from the lowest layer up: own, ref and topic; recipe, bundle, dataset, environment,
// rubric, header and model; solution; epoch, which orders every change that inference serves; revision and
// token; deployment; engine, which orders engines from jobs, and snapshot, which sends deployments to
// inference; catalog, which serves the requests of jobs.
package registry
