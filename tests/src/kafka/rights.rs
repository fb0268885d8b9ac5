//! Who may do what, of a Kafka with [`KafkaBuilder::acls`](super::KafkaBuilder::acls).

use kafka_protocol::{
    messages::{
        CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, create_acls_request::AclCreation,
        delete_acls_request::DeleteAclsFilter,
    },
    protocol::StrBytes,
};

use super::{
    Kafka, KafkaClient, Listener,
    admin::{done, text},
};
use crate::{SOON, eventually};

/// What a right is about.
#[derive(Clone, Copy, Debug)]
pub enum AclResource<'a> {
    /// A topic.
    Topic(&'a str),
    /// The broker as a whole.
    Cluster,
    /// A transactional id.
    TransactionalId(&'a str),
}

/// What a right allows, with Kafka's numbers.
#[derive(Clone, Copy, Debug)]
#[repr(i8)]
#[allow(missing_docs)] // they are Kafka's words
pub enum AclOperation {
    Read = 3,
    Write = 4,
    Create = 5,
    Describe = 8,
    DescribeConfigs = 10,
    IdempotentWrite = 12,
}

impl AclResource<'_> {
    fn kind_and_name(self) -> (i8, StrBytes) {
        match self {
            Self::Topic(name) => (2, text(name)),
            Self::Cluster => (4, text("kafka-cluster")),
            Self::TransactionalId(name) => (5, text(name)),
        }
    }
}

const LITERAL: i8 = 3;
const ALLOW: i8 = 3;

impl Kafka {
    /// Allows a user something, and waits until every running node does.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn allow(&self, user: &str, resource: AclResource<'_>, operation: AclOperation) {
        let (kind, name) = resource.kind_and_name();
        let right = AclCreation::default()
            .with_resource_type(kind)
            .with_resource_name(name)
            .with_resource_pattern_type(LITERAL)
            .with_principal(text(&format!("User:{user}")))
            .with_host(text("*"))
            .with_operation(operation as i8)
            .with_permission_type(ALLOW);
        let response = self.client().await.request(3, &CreateAclsRequest::default().with_creations(vec![right])).await;
        done(&format!("allow {user}"), response.results.iter().map(|right| (right.error_code, right)));
        self.wait_for_right(user, resource, operation, true).await;
    }

    /// Takes back what [`allow`](Self::allow) said, and waits until every running node has done so.
    ///
    /// # Panics
    /// When Kafka refuses that.
    pub async fn disallow(&self, user: &str, resource: AclResource<'_>, operation: AclOperation) {
        let (kind, name) = resource.kind_and_name();
        let right = DeleteAclsFilter::default()
            .with_resource_type_filter(kind)
            .with_resource_name_filter(Some(name))
            .with_pattern_type_filter(LITERAL)
            .with_principal_filter(Some(text(&format!("User:{user}"))))
            .with_host_filter(Some(text("*")))
            .with_operation(operation as i8)
            .with_permission_type(ALLOW);
        let response = self.client().await.request(3, &DeleteAclsRequest::default().with_filters(vec![right])).await;
        done(&format!("disallow {user}"), response.filter_results.iter().map(|right| (right.error_code, right)));
        self.wait_for_right(user, resource, operation, false).await;
    }

    /// A node learns of a change some moments after the controller has made it.
    async fn wait_for_right(&self, user: &str, resource: AclResource<'_>, operation: AclOperation, is_given: bool) {
        let (kind, name) = resource.kind_and_name();
        let right = DescribeAclsRequest::default()
            .with_resource_type_filter(kind)
            .with_resource_name_filter(Some(name))
            .with_pattern_type_filter(LITERAL)
            .with_principal_filter(Some(text(&format!("User:{user}"))))
            .with_host_filter(Some(text("*")))
            .with_operation(operation as i8)
            .with_permission_type(ALLOW);
        for node in self.nodes().iter().filter(|node| node.is_running()) {
            eventually(&format!("node {} knows {user}'s rights", node.id()), SOON, async || {
                let mut client = KafkaClient::try_connect(node.port(Listener::Plain)).await?;
                let known = client.try_request(3, &right).await?;
                if known.resources.is_empty() == is_given { Err(format!("{known:?}")) } else { Ok(()) }
            })
            .await;
        }
    }
}
