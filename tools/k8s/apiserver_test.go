package k8s

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/job"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/api/service"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalid "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalid "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalid "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkvalid "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalid "k8s.io/kubernetes/pkg/apis/policy/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	standards "k8s.io/pod-security-admission/policy"

	corev1 "k8s.io/api/core/v1"
)

// create is kubectl create --validate=strict, without what only a running cluster knows. The object has its defaults; problems are
// refusals and warnings.
func create(document []byte) (object runtime.Object, problems []string) {
	strict := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := strict.Decode(document, nil, nil)
	if err != nil {
		return nil, []string{err.Error()}
	}
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, []string{err.Error()}
	}
	accessor, err := meta.Accessor(internal)
	if err != nil {
		return nil, []string{err.Error()}
	}
	accessor.SetNamespace(metav1.NamespaceDefault)
	refused, warned := validate(internal)
	for _, err := range refused {
		problems = append(problems, err.Error())
	}
	return object, append(problems, warned...)
}

// validate does what the API server does with each kind. A missing kind is refused.
func validate(object runtime.Object) (refused field.ErrorList, warned []string) {
	ctx, spec := context.Background(), field.NewPath("spec")
	switch o := object.(type) {
	case *apps.Deployment:
		return appsvalid.ValidateDeployment(o, pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil)),
			pod.GetWarningsForPodTemplate(ctx, spec.Child("template"), &o.Spec.Template, nil)
	case *batch.Job:
		// The API server makes the selector, of labels that it adds.
		o.Spec.ManualSelector, o.Spec.Selector = new(true), &metav1.LabelSelector{MatchLabels: o.Spec.Template.Labels}
		return batchvalid.ValidateJob(o, batchvalid.JobValidationOptions{
			PodValidationOptions: pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil),
		}), job.WarningsForJobSpec(ctx, spec, &o.Spec, nil)
	case *core.ConfigMap:
		return corevalid.ValidateConfigMap(o), nil
	case *core.Service:
		return corevalid.ValidateServiceCreate(o), service.GetWarningsForService(o, nil)
	case *networking.NetworkPolicy:
		return networkvalid.ValidateNetworkPolicy(o, networkvalid.NetworkPolicyValidationOptions{}), nil
	case *policy.PodDisruptionBudget:
		return policyvalid.ValidatePodDisruptionBudget(o, policyvalid.PodDisruptionBudgetValidationOptions{}), nil
	}
	return nil, []string{fmt.Sprintf("%T: no test knows this kind", object)}
}

// restricted returns what the strictest of the Pod Security Standards forbids about a pod.
func restricted(template *corev1.PodTemplateSpec) []string {
	evaluator, err := standards.NewEvaluator(standards.DefaultChecks())
	if err != nil {
		return []string{err.Error()}
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	result := standards.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
	if !result.Allowed {
		return []string{"pod security: " + result.ForbiddenDetail()}
	}
	return nil
}
