"""What is done with a deployed storage, through boto3."""
