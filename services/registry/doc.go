// Package registry is the service that owns the recipe catalog, datasets, models, the deployments that serve
// models, environments, rubrics, and solutions with their applications. It promises that:
//
//   - stored bytes match their digests;
//   - a ready version never changes;
//   - a candidate revision never affects traffic;
//   - promotion switches traffic by changing a single row;
//   - before a revocation returns, every replica of inference that may still serve rejects the token.
//
// Its packages, in the order in which a model comes into use: recipe, codepackage, dataset, environment and rubric
// store what a training uses. ref parses references to these objects, and catalog resolves the references for the jobs
// service and shows from what an object was made. The package model registers the artifact of a run, modelfile reads the headers of the artifact's files, and
// modelcard stores the cards of versions. solution binds models to other objects in applications. deployment, revision
// and deploytoken decide what is served, and playground does so for short sessions. enginesync orders engines from the
// jobs service and applies the states that the jobs service reports. epoch numbers the changes, and snapshot sends them
// to the inference service. transfer changes the owner of objects, and db contains the migrations and the wake-up
// topics.
package registry
