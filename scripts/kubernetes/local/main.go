// What a cluster of one machine lacks: storage.go makes directories for claims, network.go enforces network
// policies. Both look at everything anew whenever anything changes.
package main

import (
	"context"
	"flag"
	"log"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node", "", "this machine's node")
	root := flag.String("root", "", "the directory of all volumes")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	client := kubernetes.NewForConfigOrDie(config)
	ctx := context.Background()
	factory := informers.NewSharedInformerFactory(client, 0)
	storage := newStorage(client, factory, *node, *root)
	network := newNetwork(factory)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go network.run()
	storage.run(ctx)
}

// changes tells that something has changed since it was last read, however often.
func changes(watched ...cache.SharedIndexInformer) chan struct{} {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, informer := range watched {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	return changed
}
