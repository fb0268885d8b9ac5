<?php

// What `php artisan migrate` does with the folder of migrations.

use Illuminate\Database\Migrations\DatabaseMigrationRepository;
use Illuminate\Database\Migrations\Migrator;
use Illuminate\Filesystem\Filesystem;

require __DIR__ . '/orders.php';

$databases = $capsule->getDatabaseManager();
$repository = new DatabaseMigrationRepository($databases, 'migrations');
if (!$repository->repositoryExists()) {
    $repository->createRepository();
}
(new Migrator($repository, $databases, new Filesystem()))->run([__DIR__ . '/migrations']);
