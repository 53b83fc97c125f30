package main

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
)

const (
	provisioner   = "codehub.test/directory"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	selectedNode  = "volume.kubernetes.io/selected-node"
	againAfter    = time.Second
)

// A storage makes a directory and its volume for each claim of our classes, lets it grow, and removes both
// when they are released.
type storage struct {
	client     kubernetes.Interface
	node, root string
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	classes    storagelisters.StorageClassLister
	changed    chan struct{}
}

func newStorage(
	client kubernetes.Interface, factory informers.SharedInformerFactory, node, root string,
) *storage {
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	return &storage{
		client: client, node: node, root: root,
		claims: claims.Lister(), volumes: volumes.Lister(), classes: classes.Lister(),
		changed: changes(claims.Informer(), volumes.Informer(), classes.Informer()),
	}
}

func (s *storage) run(ctx context.Context) {
	for range s.changed {
		if err := s.pass(ctx); err != nil {
			log.Print("storage: ", err)
			time.AfterFunc(againAfter, func() {
				select {
				case s.changed <- struct{}{}:
				default:
				}
			})
		}
	}
}

func (s *storage) pass(ctx context.Context) error {
	claims, _ := s.claims.List(labels.Everything())
	volumes, _ := s.volumes.List(labels.Everything())
	var failures []error
	for _, claim := range claims {
		failures = append(failures, s.provide(ctx, claim), s.grow(ctx, claim))
	}
	for _, volume := range volumes {
		failures = append(failures, s.remove(ctx, volume))
	}
	return errors.Join(failures...)
}

func (s *storage) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	class, err := s.classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != provisioner {
		return nil
	}
	waits := *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	name := "pvc-" + string(claim.UID)
	if _, err := s.volumes.Get(name); err == nil || waits && claim.Annotations[selectedNode] != s.node {
		return nil
	}
	directory := filepath.Join(s.root, name)
	if err := errors.Join(os.MkdirAll(directory, 0o777), os.Chmod(directory, 0o777)); err != nil {
		return err
	}
	here := core.NodeSelectorRequirement{
		Key: "kubernetes.io/hostname", Operator: core.NodeSelectorOpIn, Values: []string{s.node},
	}
	asked := claim.Spec.Resources.Requests[core.ResourceStorage]
	_, err = s.client.CoreV1().PersistentVolumes().Create(ctx, &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisioner}},
		Spec: core.PersistentVolumeSpec{
			Capacity:                      core.ResourceList{core.ResourceStorage: asked},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource: core.PersistentVolumeSource{
				Local: &core.LocalVolumeSource{Path: directory},
			},
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{here}}},
			}},
		},
	}, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// grow says that there is as much room as is asked for: a directory has what the disk has.
func (s *storage) grow(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	wanted := claim.Spec.Resources.Requests[core.ResourceStorage]
	if claim.Status.Phase != core.ClaimBound || wanted.Cmp(claim.Status.Capacity[core.ResourceStorage]) <= 0 {
		return nil
	}
	volume, err := s.volumes.Get(claim.Spec.VolumeName)
	if err != nil || volume.Annotations[provisionedBy] != provisioner {
		return nil
	}
	if wanted.Cmp(volume.Spec.Capacity[core.ResourceStorage]) > 0 {
		volume = volume.DeepCopy()
		volume.Spec.Capacity[core.ResourceStorage] = wanted
		if _, err := s.client.CoreV1().PersistentVolumes().Update(ctx, volume, meta.UpdateOptions{}); err != nil {
			return err
		}
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[core.ResourceStorage] = wanted
	claim.Status.Conditions = nil
	claims := s.client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	_, err = claims.UpdateStatus(ctx, claim, meta.UpdateOptions{})
	return err
}

func (s *storage) remove(ctx context.Context, volume *core.PersistentVolume) error {
	isOver := volume.Status.Phase == core.VolumeReleased && volume.DeletionTimestamp == nil &&
		volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete
	if volume.Annotations[provisionedBy] != provisioner || !isOver {
		return nil
	}
	if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
		return err
	}
	this := meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &volume.UID}}
	err := s.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, this)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
